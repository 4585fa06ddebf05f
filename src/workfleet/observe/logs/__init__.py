"""Log lines: what redacts, binds, renders and routes them. Import its modules: the supervisor needs few of them."""
