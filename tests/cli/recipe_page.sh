reprise validate --keys | diff "$SOURCE/docs/recipe.md" -
