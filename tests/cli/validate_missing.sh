# exit: 2
reprise validate missing.yaml; echo $?; reprise validate smollm2_135m_ful
