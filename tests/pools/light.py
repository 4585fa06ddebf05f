"""A worker that imports nothing, for tests that start many children."""


class Light:
    def echo(self, value: object) -> object:
        return value
