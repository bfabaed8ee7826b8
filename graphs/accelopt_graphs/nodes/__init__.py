"""The nodes of the graphs, one module each. Nodes never import nodes."""
