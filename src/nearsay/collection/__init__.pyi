from nearsay.collection.events import Event as Event
from nearsay.collection.items import Items as Items
from nearsay.collection.snapshot import Snapshot as Snapshot
from nearsay.collection.store import Store as Store
from nearsay.errors import CollectionBusy as CollectionBusy
from nearsay.errors import StorageError as StorageError
