# A folder of shipped recipes that is not there.
REPRISE_RECIPES=nowhere reprise ls; echo "exit $?"
REPRISE_RECIPES=nowhere reprise cat tiny_llama; echo "exit $?"
#> exit 1
#> exit 2
#2> reprise ls: cannot find the shipped recipes; set REPRISE_RECIPES to their folder
#2> reprise cat: cannot find the shipped recipes; set REPRISE_RECIPES to their folder
