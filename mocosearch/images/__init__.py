"""From files to pixels: find the photos of a folder, decode each safely and upright, cut views from them."""
