reprise
