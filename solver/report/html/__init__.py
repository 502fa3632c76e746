"""One HTML file for a result: no network, no script that runs, readable dark, small and printed."""
