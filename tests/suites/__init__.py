"""Wire tests of the rules: a right wire passes, a wrong wire fails its rule and leaves the neighbours green."""
