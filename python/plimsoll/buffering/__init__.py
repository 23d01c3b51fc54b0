"""Buffers within a limit of memory: compressed, evicting, large ones in files. The files are those of
`BufferStore` in TypeScript (src/buffers): what one wrote the other reads.
"""
