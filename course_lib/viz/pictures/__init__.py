"""Still pictures, one file each."""
