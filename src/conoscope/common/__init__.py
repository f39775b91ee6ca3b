"""What every room uses: errors, options, files, text on terminals and pages. Nothing here imports torch."""
