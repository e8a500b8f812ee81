for name in $(ls "$SOURCE/recipes" | sed -n 's/\.yaml$//p'); do
    reprise validate $name || exit
done
reprise validate optimizer.lr=1e-4 tiny_from_scratch batch_size=3
