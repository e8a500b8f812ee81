# exit: 2
reprise cat smollm_135m_full
