/* A folder that is in no list: tools/check-layers must refuse it. */
