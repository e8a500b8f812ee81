reprise cat tiny_from_scratch | cmp - "$SOURCE/recipes/tiny_from_scratch.yaml"
