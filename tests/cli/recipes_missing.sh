# A folder of shipped recipes that is not there.
REPRISE_RECIPES=nowhere reprise ls; echo "exit $?"
REPRISE_RECIPES=nowhere reprise cat tiny_llama; echo "exit $?"
