php shop.php # below; it needs the extension curl
