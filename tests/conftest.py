"""What every test shares; must not start anything: suites bring their own fixtures."""

from hypothesis import settings

settings.register_profile("duenotice", deadline=None, print_blob=True)
settings.load_profile("duenotice")
