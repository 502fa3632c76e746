"""From a plan to a running job, and back: what frameworks and schedulers are started with."""
