reprise train --help
#> usage: reprise train CONFIG [KEY=VALUE ...] [--nproc N] [--bytes] [--allow-plugins]
#>
#> Train the model of a recipe. CONFIG is a path or the name of a shipped recipe; KEY=VALUE sets a key,
#> ~KEY removes one. Metrics, states, the trained model and a report are written under output_dir.
#> SIGINT, SIGTERM, SIGHUP and SIGXCPU finish the step and save a state; 'resume=auto' continues from it.
#>
#>       --nproc N                run on N ranks of this machine, with its mpirun
#>       --bytes                  print exact sizes, in bytes
#>       --allow-plugins          load the plug-in libraries that the recipe names; they run code
#>   -h, --help                   print this
#>
#> example: reprise train smollm2_135m_full max_steps=4
