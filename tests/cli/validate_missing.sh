# exit: 2
reprise validate missing.yaml; echo $?; reprise validate smollm2_135m_ful
#> 2
#2> reprise validate: cannot open 'missing.yaml': no such file
#2> reprise validate: no recipe is called 'smollm2_135m_ful' (did you mean 'smollm2_135m_full'?)
