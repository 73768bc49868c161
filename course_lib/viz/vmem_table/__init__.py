"""What lies in VMEM, as a picture and as a widget."""
