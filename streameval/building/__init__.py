"""What only a build of the package needs: its hook, and the lock of the page's charts."""
