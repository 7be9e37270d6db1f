"""What a replica of one partition decides: high watermark, ISR, progress of its followers."""
