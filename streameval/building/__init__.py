"""The build of the package: its hook, and the lock of the page's charts."""
