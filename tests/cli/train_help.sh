reprise train --help
