"""The line to the supervisor: it is told, it decides; without it all goes on."""
