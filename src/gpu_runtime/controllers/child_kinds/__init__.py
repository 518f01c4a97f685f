"""Built-in kinds that the reconcilers read and write, as Structs of the fields that they set or read.

A child is unchanged if the live object, decoded into its Struct, equals what the builder makes. Pod templates that an
older version built are compared with the Structs of a newer one. Therefore:

- The default of an optional field is the value that the API server fills in.
- The builder always sets a field whose server default depends on other fields, such as imagePullPolicy.
- A field that a builder has ever set stays in its Struct: kept templates would lose it, and pods would restart.
"""
