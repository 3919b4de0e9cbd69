"""The page: its frame in Gradio, and what is shown in it as HTML."""
