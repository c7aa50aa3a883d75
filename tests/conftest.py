from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,  # exact laws take as long as they take; speed is measured in tests/benchmarks
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")
