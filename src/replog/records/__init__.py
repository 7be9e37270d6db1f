"""Record batches (magic 2): reading, checking and stamping their bytes. No file is read here."""
