import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,  # exact laws take as long as they take; speed is measured in tests/benchmarks
    derandomize="CI" in os.environ,  # one commit, one verdict; elsewhere every run explores further
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("mutation", settings.get_profile("default"), max_examples=10, derandomize=True)
settings.load_profile("default")
