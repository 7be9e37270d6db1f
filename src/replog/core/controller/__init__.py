"""The rules of the controller, over values: placement, election, changes, storage as JSON."""
