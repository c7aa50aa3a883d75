import os

from hypothesis import HealthCheck, settings

CI = "CI" in os.environ  # one commit, one verdict, soon; elsewhere every run explores further

settings.register_profile(
    "default",
    deadline=None,  # exact laws take as long as they take; speed is measured in tests/benchmarks
    derandomize=CI,
    max_examples=25 if CI else 50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("mutation", settings.get_profile("default"), max_examples=10, derandomize=True)
settings.load_profile("default")
