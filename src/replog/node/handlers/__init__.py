"""One module an API: what is asked, what is answered, what is not done yet."""
