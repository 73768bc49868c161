"""Tokamax takes three seconds to import: `make test`, which leaves its tests to `make test-all`, does not."""


def pytest_ignore_collect(collection_path, config):
    if collection_path.name.startswith("test_tokamax") and config.option.markexpr == "not sweep":
        return True
