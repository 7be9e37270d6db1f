"""What a replica of one partition decides: high watermark, ISR membership, progress of followers."""
