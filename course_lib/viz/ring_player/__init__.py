"""The ring player: devices that copy to each other, link by link, as the judge's schedule has them."""
