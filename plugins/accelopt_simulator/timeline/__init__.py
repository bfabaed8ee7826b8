"""Pictures of a predicted execution: a trace for Perfetto, and a drawing."""
