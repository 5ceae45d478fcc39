"""What the scripted model says: one small file a chapter, found by the chapter's name."""
