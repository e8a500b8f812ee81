# exit: 2
reprise
