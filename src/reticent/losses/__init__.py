"""A convex loss is a public function of parameters and a record; models and their certificates rest on it."""
