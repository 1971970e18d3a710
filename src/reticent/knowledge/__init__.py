"""Knowledge: measurements and certificates, and the free answers that follow from them."""
