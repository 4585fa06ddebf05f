"""The application: reads settings, collects what was declared, builds the graph, connects the parts, runs them."""
