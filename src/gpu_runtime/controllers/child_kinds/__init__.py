"""The kinds that the reconcilers read and write, as small Structs of exactly the fields that they set or look at.

Children are compared by these Structs ("unchanged" = the live object, read into the Struct, equals what the builder
makes), and pod templates that an older version of ours built are kept and compared with the Structs of a newer one.
So an optional field has the value as its default that the API server fills in when the field is absent, and where the
server's choice depends on other fields (imagePullPolicy) the builder always says it. A field that was once set by a
builder is never removed from its Struct: the templates that older versions kept would lose it, and pods restart.
"""
