"""The contents of VMEM, as a widget (``vmem_table``) and as a picture."""
