"""Trainers that own their loop (Hugging Face, Lightning, accelerate): recovered inside the step, from outside."""
