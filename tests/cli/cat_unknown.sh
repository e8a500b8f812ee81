# exit: 2
reprise cat smollm_135m_full
#2> reprise cat: no recipe is called 'smollm_135m_full' (did you mean 'smollm2_135m_full'?)
