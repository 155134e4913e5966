/** A browser type that the declarations of structured-headers use. Programs with the types of a browser leave this file out. */
type BufferSource = NodeJS.BufferSource;
