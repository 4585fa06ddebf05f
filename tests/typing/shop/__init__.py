"""The application of the programs: contracts, a module each for mail and media, and the app."""
