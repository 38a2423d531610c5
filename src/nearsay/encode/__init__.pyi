from nearsay.encode.table_encoder import TableEncoder as TableEncoder
